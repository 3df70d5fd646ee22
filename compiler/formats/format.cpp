#include "compiler/formats/format.h"

#include "compiler/formats/format_list.h"

namespace ucp {

std::span<const std::unique_ptr<const Format>> AllFormats() {
  static const std::vector<std::unique_ptr<const Format>> formats = MakeFormats();
  return formats;
}

const Format* FindFormat(std::string_view name) {
  for (const auto& format : AllFormats()) {
    if (format->name() == name) return format.get();
  }
  return nullptr;
}

const Format* FindFormatOfHeader(std::string_view path) {
  for (const auto& format : AllFormats()) {
    if (format->HasHeader(path)) return format.get();
  }
  return nullptr;
}

}  // namespace ucp
