# compress(FILE RESULT): FILE.gz, without a time in it, so that two builds give the same bytes; as it is elsewhere
# than in a package's prefix.
function(compress file result)
    set(${result} "${file}" PARENT_SCOPE)
    if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
        return()
    endif()
    get_filename_component(name "${file}" NAME)
    set(compressed "${CMAKE_BINARY_DIR}/${name}.gz")
    execute_process(COMMAND gzip -9nc "${file}" OUTPUT_FILE "${compressed}" COMMAND_ERROR_IS_FATAL ANY)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    set(${result} "${compressed}" PARENT_SCOPE)
endfunction()

# Manual pages, the service's units and its configuration. Units name /usr/bin, so they are installed with that
# prefix only; others get the sample configuration to read.
foreach(page daemon:dataloadd.8 daemon:dataloadd.conf.5 development:libdataload.3 tools:dataloadctl.1 tools:dataload-pack.1)
    string(REGEX MATCH "^[a-z]+" component "${page}")
    string(REGEX REPLACE "^[a-z]+:" "" manual "${page}")
    string(REGEX MATCH "[0-9]$" section "${manual}")
    compress("${PROJECT_SOURCE_DIR}/docs/${manual}" installed)
    install(FILES "${installed}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man${section}"
        COMPONENT ${component})
endforeach()
# The configuration's page by the name of its file, too.
file(WRITE "${CMAKE_BINARY_DIR}/dataloadd.yaml.5" ".so man5/dataloadd.conf.5\n")
compress("${CMAKE_BINARY_DIR}/dataloadd.yaml.5" installed)
install(FILES "${installed}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man5" COMPONENT daemon)
# Completion: zsh looks where Debian has its packages' only on Debian.
set(zsh "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set(zsh share/zsh/vendor-completions)
endif()
foreach(program daemon:dataloadd tools:dataloadctl tools:dataload-pack)
    string(REGEX MATCH "^[a-z]+" component "${program}")
    string(REGEX REPLACE "^[a-z]+:" "" program "${program}")
    install(FILES "${PROJECT_SOURCE_DIR}/completion/${program}.bash" RENAME "${program}"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT ${component})
    install(FILES "${PROJECT_SOURCE_DIR}/completion/_${program}" DESTINATION "${zsh}" COMPONENT ${component})
endforeach()
set(service "${PROJECT_SOURCE_DIR}/systemd")
set(examples "${CMAKE_INSTALL_DATADIR}/doc/dataloadd/examples")
install(FILES "${service}/alerts.yml" "${PROJECT_SOURCE_DIR}/docs/grafana.json" DESTINATION "${examples}" COMPONENT daemon)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/slurm" "${PROJECT_SOURCE_DIR}/docs/kubernetes" "${PROJECT_SOURCE_DIR}/docs/containers"
    DESTINATION "${examples}" COMPONENT daemon USE_SOURCE_PERMISSIONS)
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    install(FILES "${service}/dataloadd.yaml" DESTINATION "${examples}" COMPONENT daemon)
    return()
endif()
install(FILES "${service}/dataloadd.service" "${service}/dataloadd.socket" "${service}/dataloadd-gpu.service"
    DESTINATION lib/systemd/system COMPONENT daemon)
# systemd's package has dpkg tell it of files there (journalctl --update-catalog).
install(FILES "${service}/dataloadd.catalog" DESTINATION lib/systemd/catalog COMPONENT daemon)
install(FILES "${service}/sysusers.conf" DESTINATION lib/sysusers.d RENAME dataloadd.conf COMPONENT daemon)
install(FILES "${service}/tmpfiles.conf" DESTINATION lib/tmpfiles.d RENAME dataloadd.conf COMPONENT daemon)
install(FILES "${service}/dataloadd.yaml" DESTINATION /etc/dataloadd COMPONENT daemon)
install(DIRECTORY "${service}/dataloadd.service.d" DESTINATION "${examples}" COMPONENT daemon)
