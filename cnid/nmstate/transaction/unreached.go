// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"fmt"
	"strings"
	"time"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// unreached is the reason why a host lacks a desired state: the expected and the found value, and
// the time since when they differ.
type unreached struct {
	lacks string
	since time.Time
}

// note takes what a look at the host found. The time counts from the first look that found the
// same.
func (u *unreached) note(now *document.State, steps []plan.Step) {
	lacks := make([]lack, len(steps))
	for n, step := range steps {
		lacks[n] = lack(plan.Lack(now, step))
	}
	if text := words(lacks); text != u.lacks {
		u.lacks, u.since = text, time.Now()
	}
}

// Error names the missing part.
func (u unreached) Error() string {
	return fmt.Sprintf(
		"the host does not have the desired state: %s; it is so since %s",
		u.lacks,
		u.since.UTC().Format(time.RFC3339),
	)
}

// lack holds a text of plan.Lack.
type lack string

// String returns the text on one line.
func (l lack) String() string { return strings.Join(strings.Fields(string(l)), " ") }
