# Small helpers of the other CMake files.

# Turns an option off that the tree cannot honour, in the cache too, and says why.
macro(torch_disable_option name reason)
  message(STATUS "Not compiling with ${name}: ${reason}. Suppress this message with -D${name}=OFF.")
  set(${name} OFF CACHE BOOL "Turned off: ${reason}" FORCE)
endmacro()

# Turns an option off unless a header is found, in the given folders or where the compiler looks.
macro(torch_require_header option header)
  if(${option})
    find_path(${option}_INCLUDE_DIR "${header}" HINTS ${ARGN} PATH_SUFFIXES include)
    if(NOT ${option}_INCLUDE_DIR)
      torch_disable_option(${option} "${header} was not found")
    endif()
  endif()
endmacro()

# Installs a library into lib, where it finds the other ones of this tree beside itself.
function(torch_install_library target)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${TORCH_ORIGIN}")
  install(TARGETS ${target} RUNTIME DESTINATION lib LIBRARY DESTINATION lib ARCHIVE DESTINATION lib)
endfunction()

# The folder of the loading file, as the dynamic linker spells it.
if(APPLE)
  set(TORCH_ORIGIN "@loader_path")
else()
  set(TORCH_ORIGIN "$ORIGIN")
endif()
