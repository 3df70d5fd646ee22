#include "compiler/formats/format_list.h"

#include "compiler/formats/dcp/dcp.h"
#include "compiler/formats/deepspeed/native/deepspeed.h"
#include "compiler/formats/deepspeed/universal/universal.h"
#include "compiler/formats/megatron/megatron.h"
#include "compiler/formats/safetensors/safetensors.h"

namespace ucp {

std::vector<std::unique_ptr<const Format>> MakeFormats() {
  std::vector<std::unique_ptr<const Format>> formats;
  formats.push_back(MakeDeepSpeedFormat());
  formats.push_back(MakeUniversalFormat());
  formats.push_back(MakeSafetensorsFormat({DeepSpeedStateReader()}));
  formats.push_back(MakeDcpFormat());
  formats.push_back(MakeMegatronFormat());
  return formats;
}

}  // namespace ucp
