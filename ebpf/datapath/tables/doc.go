// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tables turns a State into the rows of maps and back, finds what differs, and
// puts the steps from one to the other in an order that opens nothing and loses
// nothing. There is one descriptor per table; tables of one area share a file. sequence
// lists the descriptors, and drives comparing, swapping, surveying, reading and dumping.
package tables
