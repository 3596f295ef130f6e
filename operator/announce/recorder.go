// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// NewRecorder returns the operator's writer of events. It shortens every note to the length that
// the API accepts.
func NewRecorder(to events.EventRecorder) events.EventRecorder { return recorder{to} }

type recorder struct{ to events.EventRecorder }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(regarding, related runtime.Object, level, reason, action, note string, args ...any) {
	r.to.Eventf(regarding, related, level, reason, action, "%s", v1alpha1.EventNote(fmt.Sprintf(note, args...)))
}
