// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reference has the pages of this folder that programs show. The pages are the one
// source: aliothctl explain reads their tables.
package reference

import _ "embed"

// Folder is the folder of the pages in the repository.
const Folder = "docs/reference"

// Pages with the reasons, errors and refusals of Alioth.
var (
	//go:embed reasons.md
	reasons string
	//go:embed errors.md
	errors string
	//go:embed refusals.md
	refusals string
)

// Pages returns the pages that programs show.
func Pages() []string { return []string{reasons, errors, refusals} }
