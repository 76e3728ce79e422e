#include <Python.h>
// Python.h comes first: it sets feature macros.
#include "harness/real/rank_threads.h"

#include <thread>

namespace shardfuzz {
namespace {

thread_local PyThreadState* lasting_state = nullptr;

}  // namespace

void RankThreads::run(int count, const std::function<void(int)>& job) {
  std::unique_lock lock(mutex_);
  job_ = &job;
  running_ = count;
  while (static_cast<int>(seats_.size()) < count) {
    seats_.emplace_back();
    const int rank = static_cast<int>(seats_.size()) - 1;
    std::thread([this, rank] { serve(rank); }).detach();
  }
  for (int rank = 0; rank < count; ++rank) seats_[static_cast<std::size_t>(rank)].has_job = true;
  wake_.notify_all();
  finished_.wait(lock, [&] { return running_ == 0; });
  job_ = nullptr;
}

void RankThreads::serve(int rank) {
  const auto at = static_cast<std::size_t>(rank);
  while (true) {
    const std::function<void(int)>* job = nullptr;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return seats_[at].has_job; });
      seats_[at].has_job = false;
      job = job_;
    }
    (*job)(rank);
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) finished_.notify_one();
  }
}

PythonThread::PythonThread() {
  if (lasting_state == nullptr) {
    PyGILState_Ensure();
    lasting_state = PyThreadState_Get();
  } else {
    PyEval_RestoreThread(lasting_state);
  }
}

PythonThread::~PythonThread() { PyEval_SaveThread(); }

}  // namespace shardfuzz
