#include "compiler/formats/format.h"

#include "compiler/formats/deepspeed/native/deepspeed.h"
#include "compiler/formats/deepspeed/universal/universal.h"
#include "compiler/formats/safetensors/safetensors.h"

namespace ucp {

std::span<const std::unique_ptr<const Format>> AllFormats() {
  static const std::vector<std::unique_ptr<const Format>> formats = [] {
    std::vector<std::unique_ptr<const Format>> list;
    list.push_back(MakeDeepSpeedFormat());
    list.push_back(MakeUniversalFormat());
    list.push_back(MakeSafetensorsFormat());
    return list;
  }();
  return formats;
}

const Format* FindFormat(std::string_view name) {
  for (const auto& format : AllFormats()) {
    if (format->name() == name) return format.get();
  }
  return nullptr;
}

}  // namespace ucp
