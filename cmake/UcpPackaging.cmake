# An archive to unpack anywhere, and a Debian package. scripts/make-archive.sh lets cpack make both of a static build.
include_guard()

# The wheel has no use for this licence.
install(FILES /usr/share/doc/libc6-dev/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences RENAME libc6-dev)

set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_NAME ucp)
set(CPACK_PACKAGE_VENDOR "The developers of ucp")
set(CPACK_PACKAGE_CONTACT "The developers of ucp")
set(CPACK_PACKAGE_FILE_NAME ucp-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
include(CPack)
