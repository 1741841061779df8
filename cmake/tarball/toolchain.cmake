# This machine's compiler, with the C library and the other libraries of $DATALOADD_SYSROOT (build.sh).
set(sysroot "$ENV{DATALOADD_SYSROOT}")
set(CMAKE_SYSROOT "${sysroot}")
set(CMAKE_FIND_ROOT_PATH "${sysroot}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(what LIBRARY INCLUDE PACKAGE)
    set(CMAKE_FIND_ROOT_PATH_MODE_${what} ONLY)
endforeach()
# The same bytes wherever it lies.
set(CMAKE_C_FLAGS_INIT "-ffile-prefix-map=${sysroot}=/sysroot")
# The compiler looks beside itself first, where this machine's C library is.
set(libraries "${sysroot}/usr/lib/x86_64-linux-gnu")
foreach(kind EXE SHARED MODULE)
    set(CMAKE_${kind}_LINKER_FLAGS_INIT "-B${libraries} -L${libraries} -static-libgcc")
endforeach()
