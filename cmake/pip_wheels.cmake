# Used by the pip build only (setup.py passes it as CMAKE_PROJECT_INCLUDE). The ROS wheels export
# include directories of the machine that built them (/opt/python/...), and CMake refuses imported
# targets whose include directories are not there: drop those.
foreach(_pkg builtin_interfaces std_msgs geometry_msgs service_msgs)
  find_package(${_pkg} REQUIRED)
endforeach()
get_property(_targets DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(_target IN LISTS _targets)
  get_target_property(_dirs ${_target} INTERFACE_INCLUDE_DIRECTORIES)
  if(_dirs MATCHES "/opt/python/")
    list(FILTER _dirs EXCLUDE REGEX "^/opt/python/")
    set_target_properties(${_target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_dirs}")
  endif()
endforeach()
