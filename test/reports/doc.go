// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reports keeps public reports about the faults of other networks. Each report is a small
// case with its right value, which the lab is asked for. README.md lists the reports, and says how
// to make a new one.
package reports
