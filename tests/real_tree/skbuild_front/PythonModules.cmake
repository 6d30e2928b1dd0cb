# torch._C and functorch._C as Python modules that CMake builds and installs; the prefix is the package torch.

if(NOT BUILD_PYTHON)
  return()
endif()
get_filename_component(_package "${CMAKE_INSTALL_PREFIX}" NAME)
if(NOT _package STREQUAL "torch")
  message(FATAL_ERROR "CMake must install into the package torch, and not into ${CMAKE_INSTALL_PREFIX}")
endif()
set(_suffix ".${Python_SOABI}${CMAKE_SHARED_MODULE_SUFFIX}")
if(WIN32)
  set(_suffix ".${Python_SOABI}.pyd")
endif()

add_library(_C MODULE ${PROJECT_SOURCE_DIR}/torch/csrc/stub.c)
target_include_directories(_C PRIVATE ${Python_INCLUDE_DIRS})
target_link_libraries(_C PRIVATE torch_python)
set_target_properties(_C PROPERTIES
  PREFIX "" SUFFIX "${_suffix}" DEBUG_POSTFIX ""
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/torch
  INSTALL_RPATH "${_rpath_portable_origin}/lib")
install(TARGETS _C DESTINATION .)

if(BUILD_FUNCTORCH)
  set_target_properties(functorch PROPERTIES OUTPUT_NAME "_C" SUFFIX "${_suffix}")
  install(TARGETS functorch DESTINATION ../functorch)
endif()
