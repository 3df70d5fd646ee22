// Loading in tests: records into memory of their own, which is full of something else before.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/load/load.h"

namespace ucp {

struct LoadedRecords {
  // Memory for these records of the plan, none of it zero.
  LoadedRecords(const Plan& plan, const std::vector<RecordId>& records);

  std::vector<WantedRecord> wanted() const;

  std::map<RecordId, std::string> contents;
};

// The same records as files have them, by the files' paths.
std::map<RecordId, std::string> RecordsOfFiles(const Plan& plan, const std::vector<RecordId>& records,
                                               const std::map<std::string, std::string>& files);

std::vector<RecordId> AllRecords(const Plan& plan);

}  // namespace ucp
