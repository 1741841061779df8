# Flags of every target.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

add_compile_definitions(_GNU_SOURCE DATALOADD_VERSION="${PROJECT_VERSION}")
# No fused multiply-add: crop arithmetic gives the same boxes on every machine.
add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Werror -Wmissing-prototypes
                    -Wno-missing-field-initializers -ffp-contract=off -fno-omit-frame-pointer)
add_compile_options("-ffile-prefix-map=${CMAKE_SOURCE_DIR}=." "-ffile-prefix-map=${CMAKE_BINARY_DIR}=.")

if(DATALOADD_SANITIZE)
    add_compile_definitions(SANITIZED) # malloc is not glibc's then
endif()
if(DATALOADD_SANITIZE STREQUAL "address")
    add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all)
    add_link_options(-fsanitize=address,undefined)
elseif(DATALOADD_SANITIZE STREQUAL "thread")
    add_compile_options(-fsanitize=thread)
    add_link_options(-fsanitize=thread)
endif()
