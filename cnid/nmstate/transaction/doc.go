// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transaction changes the network of a host so that nobody is locked out.
//
// A transaction begins with a file, on disk before the first change: the state of all that
// will be touched, and a deadline. It ends when it is committed or rolled back, and the
// file is removed. Three actors may roll it back:
//
//   - the process that applies, when a step fails, when the host does not come to the
//     desired state, or when it does not reach what it has to reach;
//   - a second process, the guard, which waits for the deadline. It has a session of its
//     own, so it outlives the first one, and ends that one if it hangs;
//   - the next process that opens the folder, if the guard is gone too.
//
// After a boot nothing of an open transaction is left in the kernel; its file is removed.
// One transaction is open at a time; a lock on the folder sees to that.
package transaction
