// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package labs

import (
	"testing"
	"time"
)

func TestAttachTime_EitherLogFormat_Read(t *testing.T) {
	const log = `2026-01-02T03:04:05.1Z time=x level=INFO msg="pod attached" pod=bench/sample-1 containerID=abc ifName=eth0
2026-01-02T03:04:05.2Z {"level":"INFO","msg":"pod attached","pod":"bench/sample-2","containerID":"abc"}
2026-01-02T03:04:05.3Z time=x level=WARN msg="something else" pod=bench/sample-3
`
	tests := map[string]string{"bench/sample-1": "2026-01-02T03:04:05.1Z", "bench/sample-2": "2026-01-02T03:04:05.2Z", "bench/sample-3": "", "bench/sample": ""}
	for pod, want := range tests {
		var wanted time.Time
		if want != "" {
			var err error
			if wanted, err = time.Parse(time.RFC3339Nano, want); err != nil {
				t.Fatal(err)
			}
		}
		if got := attachedAt(log, pod); !got.Equal(wanted) {
			t.Errorf("%s attached at %s, want %s", pod, got, wanted)
		}
	}
}
