// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tables turns a State into the rows of maps and back, finds what differs, and
// puts the steps from one to the other in an order that opens nothing and loses
// nothing. There is one descriptor per table, in a file of its own; sequence lists them.
package tables
