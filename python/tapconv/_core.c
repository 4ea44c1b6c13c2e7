/* The library for Python: plans as objects, arrays as addresses. It knows neither NumPy nor PyTorch; whoever calls it has
 * checked that an address is of memory of the right size, type and device. Functions that compute release the GIL.
 *
 * METH_VARARGS, since the stable ABI of Python 3.9 has no METH_FASTCALL. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "tapconv.h"

#include <stdlib.h>

typedef struct plan_object {
    PyObject_HEAD tapconv_plan *plan;
    size_t packed_bytes, workspace_bytes;
} plan_object;

static PyTypeObject *plan_type;

/* Raises the library's sentence for the calling thread's failed call. */
static PyObject *raise_status(tapconv_status status)
{
    PyObject *kind = PyExc_RuntimeError;
    if (status == TAPCONV_INVALID_ARGUMENT) kind = PyExc_ValueError;
    if (status == TAPCONV_OUT_OF_MEMORY) kind = PyExc_MemoryError;
    PyErr_SetString(kind, tapconv_last_error());
    return NULL;
}

static void plan_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    tapconv_plan_destroy(((plan_object *)self)->plan);
    release(self);
    Py_DECREF(type);
}

/* Reads `count` addresses and sizes, unsigned integers; 0 stands for NULL. */
static int read_words(PyObject *arguments, const char *function, int count, uintptr_t *words)
{
    if (PyTuple_Size(arguments) != count) {
        PyErr_Format(PyExc_TypeError, "%s takes %d integers, not %zd", function, count, PyTuple_Size(arguments));
        return 0;
    }
    for (int i = 0; i < count; i++) {
        const unsigned long long word = PyLong_AsUnsignedLongLong(PyTuple_GetItem(arguments, i));
        if (word == (unsigned long long)-1 && PyErr_Occurred()) return 0;
        words[i] = (uintptr_t)word;
    }
    return 1;
}

static void *address(uintptr_t word)
{
    return (void *)word;
}

/* pack(w, packed, stream): packs w into `packed`, of packed_bytes bytes. */
static PyObject *plan_pack(PyObject *self, PyObject *arguments)
{
    const plan_object *p = (plan_object *)self;
    uintptr_t words[3];
    if (!read_words(arguments, "pack", 3, words)) return NULL;
    tapconv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tapconv_pack_weights_on(p->plan, address(words[0]), address(words[1]), p->packed_bytes, address(words[2]));
    Py_END_ALLOW_THREADS
    if (status != TAPCONV_OK) return raise_status(status);
    Py_RETURN_NONE;
}

static tapconv_arrays arrays_of(const uintptr_t words[6])
{
    return (tapconv_arrays){.x = address(words[0]),
                            .packed_weights = address(words[1]),
                            .bias = address(words[2]),
                            .gamma = address(words[3]),
                            .beta = address(words[4]),
                            .y = address(words[5])};
}

/* execute(x, packed, bias, gamma, beta, y, workspace, stream) with arrays of the caller's alone. */
static PyObject *plan_execute(PyObject *self, PyObject *arguments)
{
    const plan_object *p = (plan_object *)self;
    uintptr_t words[8];
    if (!read_words(arguments, "execute", 8, words)) return NULL;
    tapconv_arrays arrays = arrays_of(words);
    arrays.workspace = address(words[6]);
    arrays.workspace_bytes = p->workspace_bytes;
    arrays.stream = address(words[7]);
    tapconv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tapconv_execute(p->plan, &arrays);
    Py_END_ALLOW_THREADS
    if (status != TAPCONV_OK) return raise_status(status);
    Py_RETURN_NONE;
}

/* run(x, w, packed, bias, gamma, beta, y), for the CPU: packs w where `packed` is 0, and has the workspace from malloc. */
static PyObject *plan_run(PyObject *self, PyObject *arguments)
{
    const plan_object *p = (plan_object *)self;
    uintptr_t words[7];
    if (!read_words(arguments, "run", 7, words)) return NULL;
    const void *const w = address(words[1]);
    const uintptr_t without_w[6] = {words[0], words[2], words[3], words[4], words[5], words[6]};
    tapconv_arrays arrays = arrays_of(without_w);
    /* Packed weights are aligned to 8 bytes, as malloc's memory is; the workspace may lie anywhere. */
    const size_t packed_bytes = words[2] ? 0 : p->packed_bytes;
    const size_t scratch_bytes = packed_bytes + p->workspace_bytes;
    tapconv_status status = TAPCONV_OK;
    unsigned char *scratch;
    Py_BEGIN_ALLOW_THREADS
    scratch = malloc(scratch_bytes ? scratch_bytes : 1);
    if (scratch) {
        arrays.workspace = scratch + packed_bytes;
        arrays.workspace_bytes = p->workspace_bytes;
        if (!words[2]) {
            arrays.packed_weights = scratch;
            status = tapconv_pack_weights(p->plan, w, scratch, packed_bytes);
        }
        if (status == TAPCONV_OK) status = tapconv_execute(p->plan, &arrays);
    }
    free(scratch);
    Py_END_ALLOW_THREADS
    if (!scratch) return PyErr_NoMemory();
    if (status != TAPCONV_OK) return raise_status(status);
    Py_RETURN_NONE;
}

/* info(): what was planned, as tapconv_plan_info has it. */
static PyObject *plan_info(PyObject *self, PyObject *unused)
{
    (void)unused;
    tapconv_plan_info info;
    tapconv_plan_get_info(((plan_object *)self)->plan, &info);
    return Py_BuildValue("{s:s,s:s,s:s,s:s,s:L,s:d,s:d,s:n,s:n,s:i}", "kernel", info.kernel, "reason", info.reason, "isa",
                         info.isa, "device", info.device, "out_length", (long long)info.out_length, "flops", info.flops,
                         "bytes", info.bytes, "workspace_bytes", (Py_ssize_t)info.workspace_bytes,
                         "packed_weights_bytes", (Py_ssize_t)info.packed_weights_bytes, "threads", (int)info.threads);
}

static PyMethodDef plan_methods[] = {
    {"pack", plan_pack, METH_VARARGS, "pack(w, packed, stream)"},
    {"execute", plan_execute, METH_VARARGS, "execute(x, packed, bias, gamma, beta, y, workspace, stream)"},
    {"run", plan_run, METH_VARARGS, "run(x, w, packed, bias, gamma, beta, y)"},
    {"info", plan_info, METH_NOARGS, "info() -> dict"},
    {NULL, NULL, 0, NULL}};

static PyType_Slot plan_slots[] = {
    {Py_tp_dealloc, plan_dealloc}, {Py_tp_methods, plan_methods}, {Py_tp_doc, "A planned layer; immutable."}, {0, NULL}};

static PyType_Spec plan_spec = {.name = "tapconv._core.Plan",
                                .basicsize = sizeof(plan_object),
                                .flags = Py_TPFLAGS_DEFAULT,
                                .slots = plan_slots};

/* plan(batch, in_channels, out_channels, length, kernel_size, stride, dilation, groups, padding_left, padding_right,
 *      norm_groups, norm_eps, norm_affine, has_bias, activation, layout, type, param_type, math, device, device_index,
 *      threads) -> Plan */
static PyObject *make_plan(PyObject *module, PyObject *arguments)
{
    (void)module;
    long long n[11];
    double eps;
    int i[10];
    if (!PyArg_ParseTuple(arguments, "LLLLLLLLLLLdiiiiiiiiii", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6], &n[7],
                          &n[8], &n[9], &n[10], &eps, &i[0], &i[1], &i[2], &i[3], &i[4], &i[5], &i[6], &i[7], &i[8],
                          &i[9]))
        return NULL;
    const tapconv_problem problem = {.batch = n[0],
                                     .in_channels = n[1],
                                     .out_channels = n[2],
                                     .length = n[3],
                                     .kernel_size = n[4],
                                     .stride = n[5],
                                     .dilation = n[6],
                                     .groups = n[7],
                                     .padding_left = n[8],
                                     .padding_right = n[9],
                                     .norm_groups = n[10],
                                     .norm_eps = eps,
                                     .norm_affine = i[0],
                                     .has_bias = i[1],
                                     .activation = (tapconv_activation)i[2],
                                     .layout = (tapconv_layout)i[3],
                                     .type = (tapconv_type)i[4],
                                     .param_type = (tapconv_type)i[5],
                                     .math = (tapconv_math)i[6]};
    const tapconv_plan_options options = {
        .device = (tapconv_device)i[7], .device_index = i[8], .threads = i[9]};
    tapconv_plan *plan = NULL;
    tapconv_status status;
    /* A first plan for a GPU loads the engine and waits for the driver. */
    Py_BEGIN_ALLOW_THREADS
    status = tapconv_plan_create(&plan, &problem, &options);
    Py_END_ALLOW_THREADS
    if (status != TAPCONV_OK) return raise_status(status);
    allocfunc allocate = (allocfunc)PyType_GetSlot(plan_type, Py_tp_alloc);
    plan_object *object = (plan_object *)allocate(plan_type, 0);
    if (!object) {
        tapconv_plan_destroy(plan);
        return NULL;
    }
    object->plan = plan;
    object->packed_bytes = tapconv_packed_weights_bytes(plan);
    object->workspace_bytes = tapconv_workspace_bytes(plan);
    return (PyObject *)object;
}

static PyObject *version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(tapconv_version());
}

/* cuda_devices(): how many there are; RuntimeError with the reason if there is no engine, driver or device. */
static PyObject *cuda_devices(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    const tapconv_plan_options where = {.device = TAPCONV_CUDA};
    int32_t count = 0;
    tapconv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tapconv_device_count(&where, &count);
    Py_END_ALLOW_THREADS
    if (status != TAPCONV_OK) return raise_status(status);
    return PyLong_FromLong(count);
}

static PyMethodDef functions[] = {{"plan", make_plan, METH_VARARGS, "plan(...) -> Plan"},
                                  {"version", version, METH_NOARGS, "version() -> str"},
                                  {"cuda_devices", cuda_devices, METH_NOARGS, "cuda_devices() -> int"},
                                  {NULL, NULL, 0, NULL}};

static struct PyModuleDef module_definition = {PyModuleDef_HEAD_INIT,
                                               .m_name = "tapconv._core",
                                               .m_doc = "The tapconv library by addresses.",
                                               .m_size = -1,
                                               .m_methods = functions};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void)
{
    PyObject *module = PyModule_Create(&module_definition);
    if (!module) return NULL;
    plan_type = (PyTypeObject *)PyType_FromSpec(&plan_spec);
    if (!plan_type) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
