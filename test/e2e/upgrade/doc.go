// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgrade changes a cluster from the last release to the work tree and back, while
// traffic of all sorts flows and pods start. It runs on the lab that is up, or brings one up
// with the release, when ALIOTH_E2E=1 is set, as root.
package upgrade
