/* Eight float64 lanes as two vectors of four. */

/* A word a line. */
/* clang-format off */
static inline vd8 vd8_zero(void) { return (vd8){vd_zero(), vd_zero()}; }
static inline vd8 vd8_set1(double a) { return (vd8){vd_set1(a), vd_set1(a)}; }
static inline vd8 vd8_load(const double *p) { return (vd8){vd_load(p), vd_load(p + 4)}; }
static inline void vd8_store(double *p, vd8 a) { vd_store(p, a.low), vd_store(p + 4, a.high); }
static inline vd8 vd8_add(vd8 a, vd8 b) { return (vd8){vd_add(a.low, b.low), vd_add(a.high, b.high)}; }
static inline vd8 vd8_fma(vd8 a, vd8 b, vd8 c) { return (vd8){vd_fma(a.low, b.low, c.low), vd_fma(a.high, b.high, c.high)}; }
