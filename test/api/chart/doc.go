// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart runs the lab's Helm on Alioth's chart, for tests.
package chart
