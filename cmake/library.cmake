# dl_library(name folder libraries...): one static library of all .c files of one folder; what it
# may include is what it links, and tests/lint checks the same.
function(dl_library name folder)
    file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.c")
    if(sources)
        add_library(${name} STATIC ${sources})
        set(scope PUBLIC)
    else()
        add_library(${name} INTERFACE)
        set(scope INTERFACE)
    endif()
    target_include_directories(${name} ${scope} "${PROJECT_SOURCE_DIR}/daemon" "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${name} ${scope} ${ARGN})
endfunction()
