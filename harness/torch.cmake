# Finds torch and the Python library of SHARDFUZZ_PYTHON and defines the interface target
# shardfuzz_torch. Without SHARDFUZZ_PYTHON the parts that need them are not built.
if(NOT SHARDFUZZ_PYTHON)
  message(STATUS "SHARDFUZZ_PYTHON is not set: the real target (worker) is not built")
  return()
endif()
execute_process(
  COMMAND ${SHARDFUZZ_PYTHON} -c "
import os, sys, sysconfig
import importlib.util
torch = os.path.dirname(importlib.util.find_spec('torch').origin)
value = lambda name: sysconfig.get_config_var(name) or ''
version = '%d.%d' % sys.version_info[:2]
names = [value('LDLIBRARY'), 'libpython' + version + '.so']
folders = [value('LIBDIR'), os.path.join(value('LIBDIR'), value('MULTIARCH')), value('LIBPL')]
found = [os.path.join(f, n) for f in folders for n in names if n.endswith('.so')]
found = [path for path in found if os.path.exists(path)]
print(';'.join([torch, sysconfig.get_path('include'), found[0] if found else 'NONE', version]))
"
  OUTPUT_VARIABLE SHARDFUZZ_TORCH_FACTS OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_VARIABLE SHARDFUZZ_TORCH_ERROR RESULT_VARIABLE SHARDFUZZ_TORCH_STATUS)
if(NOT SHARDFUZZ_TORCH_STATUS EQUAL 0)
  message(FATAL_ERROR "${SHARDFUZZ_PYTHON} has no torch: ${SHARDFUZZ_TORCH_ERROR}")
endif()
list(GET SHARDFUZZ_TORCH_FACTS 0 SHARDFUZZ_TORCH)
list(GET SHARDFUZZ_TORCH_FACTS 1 SHARDFUZZ_PYTHON_INCLUDE)
list(GET SHARDFUZZ_TORCH_FACTS 2 SHARDFUZZ_LIBPYTHON)
if(SHARDFUZZ_LIBPYTHON STREQUAL "NONE" OR NOT EXISTS ${SHARDFUZZ_PYTHON_INCLUDE}/Python.h)
  message(FATAL_ERROR "${SHARDFUZZ_PYTHON} has no Python.h or no shared libpython: install its "
                      "development package (python3-dev)")
endif()

# libtorch alone, for code that runs no Python.
# torch brings its own fmt headers, which come first on the include path: use them without a
# library. NDEBUG because torch is built with it: without it at::RecordFunction has a member more
# than torch's.
add_library(shardfuzz_libtorch INTERFACE)
target_include_directories(
  shardfuzz_libtorch SYSTEM INTERFACE ${SHARDFUZZ_TORCH}/include
                                      ${SHARDFUZZ_TORCH}/include/torch/csrc/api/include)
target_compile_definitions(shardfuzz_libtorch INTERFACE _GLIBCXX_USE_CXX11_ABI=1 FMT_HEADER_ONLY=1
                           NDEBUG)
target_compile_options(shardfuzz_libtorch INTERFACE -Wno-unused-parameter)
target_link_directories(shardfuzz_libtorch INTERFACE ${SHARDFUZZ_TORCH}/lib)
target_link_libraries(shardfuzz_libtorch INTERFACE torch_cpu c10)
target_link_options(shardfuzz_libtorch INTERFACE -Wl,-rpath,${SHARDFUZZ_TORCH}/lib
                    -Wl,--no-as-needed -Wl,--allow-shlib-undefined)

# With Python: the real target.
add_library(shardfuzz_torch INTERFACE)
target_include_directories(shardfuzz_torch SYSTEM INTERFACE ${SHARDFUZZ_PYTHON_INCLUDE})
target_link_libraries(shardfuzz_torch INTERFACE torch_cpu torch_python torch c10
                                                ${SHARDFUZZ_LIBPYTHON} shardfuzz_libtorch)
