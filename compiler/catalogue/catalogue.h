// The specs that come with the programs.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <vector>

namespace ucp {

// Names without `.ucp`, sorted. It is empty if the folder is not where an installation or a build has it.
std::vector<std::string> CatalogueNames();

// Returns those that declare a model with several layouts: "models/llama".
std::vector<std::string> ModelNames();

// Returns the path of one of them.
std::string SpecOfCatalogue(const std::string& name);

// Returns the path that a value of `--spec` means: a file as it is, or a name of the catalogue. Fails (kIo: a file is
// missing) with the nearest name.
llvm::Expected<std::string> FindSpec(const std::string& file_or_name);

}  // namespace ucp
