#include "tests/unit/runtime/load/loaded_records.h"

namespace ucp {

LoadedRecords::LoadedRecords(const Plan& plan, const std::vector<RecordId>& records) {
  for (RecordId record : records) contents[record] = std::string(plan.target.record(record).bytes, '\x5a');
}

std::vector<WantedRecord> LoadedRecords::wanted() const {
  std::vector<WantedRecord> wanted;
  for (const auto& [record, content] : contents) {
    auto* bytes = reinterpret_cast<std::byte*>(const_cast<char*>(content.data()));
    wanted.push_back({record, {bytes, content.size()}});
  }
  return wanted;
}

std::map<RecordId, std::string> RecordsOfFiles(const Plan& plan, const std::vector<RecordId>& records,
                                               const std::map<std::string, std::string>& files) {
  std::map<RecordId, std::string> contents;
  for (RecordId id : records) {
    const Record& record = plan.target.record(id);
    contents[id] = files.at(plan.target.file(id).path).substr(record.begin, record.bytes);
  }
  return contents;
}

std::vector<RecordId> AllRecords(const Plan& plan) {
  std::vector<RecordId> records;
  for (std::size_t record = 0; record < plan.target.records.size(); ++record) records.push_back(RecordId(record));
  return records;
}

}  // namespace ucp
