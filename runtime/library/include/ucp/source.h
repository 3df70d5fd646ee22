// The checkpoint to read, and the facts that cannot be read from it: the programs' arguments and options for a source.
#pragma once

#include <string>
#include <vector>

namespace ucp {
inline namespace [[gnu::visibility("default")]] v0 {

struct LoadSource {
  std::string path;                           // The folder that training saved to, or one tag's folder in it.
  std::string spec = {};                      // --spec: a file or a name of the catalogue; empty: none.
  std::string config = {};                    // --config: a file; empty: the one in the checkpoint, if it has one.
  std::vector<std::string> sets = {};         // --set: "layers=4", "tied=true"
  std::vector<std::string> unused = {};       // --unused: "NAME=last"
  std::vector<std::string> drop_states = {};  // --drop-state: "exp_avg"
  std::string prefer_rank = {};               // --prefer-rank: "tp=1"
};

// Returns the contents of the checkpoint, as the JSON text that `ucprun inspect --json` prints. It reads headers alone.
// `tensors` is a pattern for the names of the tensors that are listed. Throws Error, with kBadData for a short or
// corrupt file.
std::string InspectAsJson(const LoadSource& source, const std::string& tensors = "*");

}  // namespace v0
}  // namespace ucp
