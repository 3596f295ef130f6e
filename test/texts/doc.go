// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package texts follows the texts of others through the source of a program: from the fields
// of objects and wire formats, through variables, fields, parameters and results, to the
// functions that format messages. A text that package quote has cut and quoted is followed no
// further.
//
// The analysis goes by types and ignores the order of statements. A field stands for this
// field of all values of its struct. It does not follow functions that are values, nor
// reflection outside of decoders.
package texts
