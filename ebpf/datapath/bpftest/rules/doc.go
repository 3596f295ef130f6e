// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules checks the results of the programs for any frame. The rules know the State, and
// nothing of the programs' way to decide.
package rules
