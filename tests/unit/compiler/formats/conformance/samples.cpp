#include "tests/unit/compiler/formats/conformance/samples.h"

#include <utility>

#include "tests/unit/compiler/formats/testing/fixtures.h"

namespace ucp {

std::vector<Sample> WrittenSamples() {
  std::vector<Sample> samples;
  for (const char* name : {"zero1_dp2", "zero1_dp4", "bf16_optimizer_dp4_tiny", "sgd_momentum_zero1", "pipeline_pp2",
                           "frozen_buffers_zero2", "extra_state_zero1", "gpt_pp2_tp2_dp2"}) {
    samples.push_back({"universal", name});
    samples.push_back({"safetensors", name});
  }
  for (const auto& [name, settings] :
       std::vector<std::pair<std::string, std::string>>{{"zero1_dp4", "dp=3,zero=2,round_robin=true,alignment=true"},
                                                        {"zero1_dp4", "dp=3,zero=1,optimizer=bf16"},
                                                        {"zero1_dp4", "dp=3,zero=3,sub_group_size=900"},
                                                        {"zero1_dp4", "zero=0"},
                                                        {"zero1_dp2", "dp=2,zero=0"},
                                                        {"zero1_dp2", "dp=5,zero=3"},
                                                        {"zero2_dp2", "zero=0"},
                                                        {"frozen_buffers_zero2", "dp=3,zero=3"},
                                                        {"extra_state_zero1", "dp=2,zero=3"},
                                                        {"zero3_frozen_dp4", "dp=2,zero=2"},
                                                        {"sgd_momentum_zero1", "dp=4,zero=3"}}) {
    samples.push_back({"deepspeed", name, settings});
  }
  return samples;
}

std::vector<Sample> AllSamples() {
  std::vector<Sample> samples = WrittenSamples();
  for (const std::string& name : testing::FixtureNames()) samples.push_back({"deepspeed", name});
  for (const char* name : {"saved", "torch_checkpointing", "trained"}) samples.push_back({"dcp", name});
  for (const char* name : {"llama_tp2_pp2_dp2", "gpt_model_space_dp3"}) {
    samples.push_back({"megatron", std::string("megatron_core/") + name});
  }
  return samples;
}

}  // namespace ucp
