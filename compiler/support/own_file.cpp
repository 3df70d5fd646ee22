#include "compiler/support/own_file.h"

#include <dlfcn.h>
#include <link.h>

#include <system_error>

namespace ucp {

std::filesystem::path OwnFile() {
  Dl_info ignored{};
  link_map* object = nullptr;
  bool found = dladdr1(reinterpret_cast<const void*>(&OwnFile), &ignored, reinterpret_cast<void**>(&object),
                       RTLD_DL_LINKMAP) != 0;
  if (found && object->l_name[0] != '\0') return object->l_name;  // The program itself has no name there.
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

}  // namespace ucp
