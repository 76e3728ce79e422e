#include "harness/worker/shared_bytes.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <utility>

namespace shardfuzz {
namespace {

std::string fresh_path(const std::string& name) {
  const std::string path = ::testing::TempDir() + name + std::to_string(getpid());
  std::filesystem::remove(path);
  return path;
}

TEST(SharedBytes, WhatAProcessThatDiedHasMarkedIsSeen) {
  auto shared = SharedBytes::anonymous();
  ASSERT_TRUE(shared.ok());
  const std::string path = shared->path();
  const pid_t child = fork();
  if (child == 0) {
    auto theirs = SharedBytes::open(path);
    theirs->bytes()[7] = 1;
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(std::ranges::count(shared->bytes(), 1), 1);
  EXPECT_EQ(shared->bytes()[7], 1);
  shared->clear();
  EXPECT_EQ(std::ranges::count(shared->bytes(), 0), static_cast<std::ptrdiff_t>(kSharedBytes));
}

TEST(SharedBytes, AnonymousOnesAreGoneWithTheObject) {
  std::string path;
  {
    auto shared = SharedBytes::anonymous();
    ASSERT_TRUE(shared.ok());
    path = shared->path();
    const SharedBytes moved = std::move(shared).value();
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(SharedBytes, AFileKeepsItsBytes) {
  const std::string path = fresh_path("kept");
  {
    auto first = SharedBytes::open(path);
    ASSERT_TRUE(first.ok());
    first->bytes()[kSharedBytes - 1] = 9;
  }
  auto second = SharedBytes::open(path);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->bytes()[kSharedBytes - 1], 9);
  EXPECT_EQ(std::filesystem::file_size(path), kSharedBytes);
}

TEST(SharedBytes, AFileOfAnotherKindIsRefusedAndLeftAsItIs) {
  const std::string path = fresh_path("foreign");
  std::ofstream(path) << "text";
  const auto refused = SharedBytes::open(path);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().what, "holds 4 bytes, not 16384");
  EXPECT_EQ(std::filesystem::file_size(path), 4U);
  const auto missing = SharedBytes::open("/nowhere/at/all");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().what, "cannot be opened: No such file or directory");
}

}  // namespace
}  // namespace shardfuzz
