# Debian packages, one a component: cpack -G DEB in a build of the preset `package`.
set(CPACK_GENERATOR DEB)
set(DATALOADD_CONTACT "The dataloadd maintainers <dataloadd@localhost>" CACHE STRING "Maintainer of the Debian packages")
set(CPACK_PACKAGE_CONTACT "${DATALOADD_CONTACT}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL library development daemon tools)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${CMAKE_BINARY_DIR}/client")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(scripts "${CMAKE_CURRENT_LIST_DIR}/debian")
configure_file("${scripts}/changelog.in" "${CMAKE_BINARY_DIR}/changelog" @ONLY)
compress("${CMAKE_BINARY_DIR}/changelog" changelog)

# package(COMPONENT NAME SECTION "SUMMARY" "TEXT" CONTROL_FILE...): its documents too.
function(package component name section summary text)
    string(TOUPPER "${component}" key)
    set(CPACK_DEBIAN_${key}_PACKAGE_NAME "${name}" PARENT_SCOPE)
    set(CPACK_DEBIAN_${key}_PACKAGE_SECTION "${section}" PARENT_SCOPE)
    set(CPACK_DEBIAN_${key}_DESCRIPTION "${summary}\n${text}" PARENT_SCOPE)
    list(TRANSFORM ARGN PREPEND "${scripts}/${component}/" OUTPUT_VARIABLE control)
    set(CPACK_DEBIAN_${key}_PACKAGE_CONTROL_EXTRA "${control}" PARENT_SCOPE)
    if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
        install(FILES "${scripts}/copyright" DESTINATION "share/doc/${name}" COMPONENT ${component} ${optional})
        install(FILES "${changelog}" DESTINATION "share/doc/${name}" COMPONENT ${component} ${optional})
    endif()
endfunction()

package(library libdataload0 libs "trainer's side of dataloadd (library)"
    "Attaches a trainer process to the data loading daemon of its node and\nhands it batches." shlibs triggers)
package(development libdataload-dev libdevel "trainer's side of dataloadd (development files)"
    "The header dataload.h and what CMake and pkg-config need to link with\nlibdataload.")
package(daemon dataloadd admin "data loading daemon for the trainers of a GPU node"
    "Reads, decodes and shuffles training data once for all trainers of a node\nand hands batches to them in shared memory or in the memory of a GPU."
    conffiles postinst prerm postrm)
package(tools dataloadctl admin "status and measurements of dataloadd, and packing of data sets"
    "dataloadctl shows what limits each trainer; dataload-pack writes shards.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libdataload0 (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DAEMON_PACKAGE_DEPENDS "adduser, procps")
set(CPACK_DEBIAN_DAEMON_PACKAGE_RECOMMENDS "dataloadctl")
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "dataloadd")
if(TARGET python_extension)
    set(optional EXCLUDE_FROM_ALL)
    list(APPEND CPACK_COMPONENTS_ALL python)
    package(python python3-dataload python "batches from dataloadd in Python, without a copy"
        "The module dataload: an iterable of dicts of tensors for PyTorch, NumPy\nand JAX." postinst prerm)
    set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.9)")
    set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS "dataloadd, python3-numpy")
endif()
include(CPack)
