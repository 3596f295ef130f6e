// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kinds is the only bridge between API objects and store rows. Its
// conversions are pure functions, one per kind.
package kinds
