// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cuts has an example of each way to cut a text.
package cuts

import "strings"

const most = 256

type name string

// Cut has them.
func Cut(text string, of name, raw []byte, limit int) []string {
	end := strings.IndexByte(text, ',')
	return []string{
		text[:64],                    // found
		text[:most],                  // found
		text[:most-len(of)],          // found
		text[:min(len(text), limit)], // found
		string(of[1:most]),           // found
		text[:end],
		text[:end+1],
		text[end:],
		text[:len(text)-1],
		string(raw[:2]),
	}
}
