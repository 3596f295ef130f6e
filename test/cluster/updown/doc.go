// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package updown tests that a lab comes up, keeps the promises of its API, and leaves nothing
// behind. Its tests bring up whole clusters, so they run only with ALIOTH_TEST_LAB=1 in the
// environment.
package updown
