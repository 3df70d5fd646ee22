#include "compiler/formats/dcp/write/machine_files.h"

#include "compiler/formats/dcp/write/folder.h"

namespace ucp::dcp {

FileReaders ReadersOf(const MachineFiles& machines, const TargetFiles& target) {
  std::map<std::string, int> machine_of_name;
  for (std::int64_t machine = 0; machine < machines.machines; ++machine) {
    machine_of_name.emplace(DataFileName(machine, machines.save), static_cast<int>(machine));
  }
  std::vector<std::vector<int>> of_files;
  for (const StoredFile& file : target.storage.files) {
    std::vector<int>& readers = of_files.emplace_back();
    const auto found = machine_of_name.find(file.path.substr(file.path.rfind('/') + 1));
    if (found != machine_of_name.end()) readers.push_back(found->second);
  }
  return MakeReaders(static_cast<int>(machines.machines), of_files);
}

}  // namespace ucp::dcp
