// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import "time"

// The pause after an attempt that failed doubles from the first to the longest one.
const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// pauseAfter is the pause after so many attempts in a row that failed.
func pauseAfter(failures int) time.Duration {
	pause := firstPause
	for range failures - 1 {
		if pause *= 2; pause >= longestPause {
			return longestPause
		}
	}
	return pause
}
