// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults breaks a running cluster in every way that the product has to
// survive, and requires after each that nothing was lost, handed out twice or
// left behind. It runs when ALIOTH_E2E=1 is set, as root.
package faults
