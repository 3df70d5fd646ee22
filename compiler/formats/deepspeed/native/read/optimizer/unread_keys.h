// Entries of optimizer files that nothing here knows, and that a target therefore lacks: they are named.
#pragma once

#include <string>
#include <vector>

#include "compiler/formats/pytorch/values/value.h"

namespace ucp::deepspeed {

// Returns the keys of the dict at the top of an optimizer file, beside the keys that DeepSpeed has there.
std::vector<std::string> UnreadKeys(const pytorch::Value& root);

// Adds one sentence for each key, however many files have it; `path` is the file.
void NoteUnread(const std::string& path, const std::vector<std::string>& keys, std::vector<std::string>& remarks);

}  // namespace ucp::deepspeed
