#include "compiler/formats/deepspeed/common/muon_groups.h"

#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::deepspeed {

bool IsMuonGroup(const pytorch::Value& hyper_parameters) {
  pytorch::ValuePtr use_muon = pytorch::Find(hyper_parameters, "use_muon");
  return use_muon && pytorch::AsBool(*use_muon).value_or(false);
}

}  // namespace ucp::deepspeed
