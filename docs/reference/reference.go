// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reference has the pages of this folder that programs show. The pages are the one
// source: aliothctl explain reads their tables.
package reference

import _ "embed"

// Pages with the reasons and errors of Alioth.
var (
	//go:embed reasons.md
	Reasons string
	//go:embed errors.md
	Errors string
	//go:embed refusals.md
	Refusals string
)
