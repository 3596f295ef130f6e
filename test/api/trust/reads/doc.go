// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reads finds which fields of API objects a program reads. It reads the types of the
// program's source, so it also finds paths that no test executes.
//
// A field is read where an expression selects it and does not assign to it. The package
// joins these selections to paths from each kind. It follows labels and annotations through
// variables, parameters and results of functions, and so knows the keys. A value that leaves
// the program for another module is read as a whole. The result may contain a path that no
// execution takes, and it leaves out no field that the source selects.
package reads
