// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tables turns a State into the rows of maps and back, finds the differences,
// and orders the steps between two sets of rows so that no step opens a forbidden path
// or loses a permitted packet. There is one descriptor per table; tables of one area
// share a file. sequence lists the descriptors; comparison, exchange, survey, reading
// and dumping follow it.
package tables
