// Defaults of the sanitizers for the fuzz targets; ASAN_OPTIONS and UBSAN_OPTIONS come on top.
//
// libtorch is not instrumented, so containers that it grows look overflown to AddressSanitizer. A
// case allocates much and lives for milliseconds: with short stacks and a small quarantine (a
// quarter of the usual) a third more cases run in a second, in half the memory.
extern "C" {
const char* __asan_default_options();
const char* __ubsan_default_options();

const char* __asan_default_options() {
  return "detect_container_overflow=0:quarantine_size_mb=64:malloc_context_size=10";
}
const char* __ubsan_default_options() { return "print_stacktrace=1"; }
}
