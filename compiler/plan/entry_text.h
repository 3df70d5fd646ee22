// The printed form of each entry of a plan's tables: all that it holds, with the names of the entries that its ids
// point to. Two entries of plans that differ in nothing before them have the same text if and only if they are the
// same.
#pragma once

#include <string>

#include "compiler/plan/plan.h"

namespace ucp {

// Returns the printed entry of a file of either side.
std::string EntryText(const StoredFile& file);
std::string EntryText(const StorageTables& tables, const Record& record);
std::string EntryText(const StorageTables& tables, const Buffer& buffer);
std::string EntryText(const BufferSet& set);

std::string EntryText(const PlanTensor& tensor);
std::string EntryText(const Geometry& geometry);
std::string EntryText(const Plan& plan, const PlanRead& read);
std::string EntryText(const Plan& plan, const PlanWrite& write);
std::string EntryText(const Plan& plan, const BlobPlacement& placement);
std::string EntryText(const Plan& plan, const CrcField& field);
std::string EntryText(const RankDecision& decision);

}  // namespace ucp
