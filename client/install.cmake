# What a program that links libdataload needs: the library, its one header, and how to find both.
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/dataload")
# The .pc file names its prefix relative to itself, so that an installed tree can be moved.
file(RELATIVE_PATH pc_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
configure_file("${CMAKE_CURRENT_SOURCE_DIR}/dataload.pc.in" dataload.pc @ONLY)
write_basic_package_version_file(dataloadConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS dataload EXPORT dataload
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library NAMELINK_COMPONENT development)
install(FILES dataload.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development)
install(EXPORT dataload FILE dataloadConfig.cmake NAMESPACE dataload::
    DESTINATION "${package_dir}" COMPONENT development)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/dataloadConfigVersion.cmake"
    DESTINATION "${package_dir}" COMPONENT development)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/dataload.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)
