# Installs BUILD into FIRST and moves that to MOVED, so that a path of the first place that was kept anywhere shows.
file(REMOVE_RECURSE ${FIRST} ${MOVED})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${FIRST} RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "cmake --install ended with status ${status}")
endif()
file(RENAME ${FIRST} ${MOVED})
