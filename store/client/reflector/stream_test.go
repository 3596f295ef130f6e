// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func readAll(body string) (items []string, version string, err error) {
	version, err = readList(iotest.HalfReader(strings.NewReader(body)), func(raw []byte) { items = append(items, string(raw)) })
	return items, version, err
}

func TestReadList_AnyFieldOrder_Read(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want []string
	}{
		"metadata first": {`{"kind":"List","metadata":{"resourceVersion":"7"},"items":[{"a":1},{"b":[{}]}]}`, []string{`{"a":1}`, `{"b":[{}]}`}},
		"metadata last":  {`{"items":[{"a":"]}"}],"more":{"items":[1]},"metadata":{"continue":"","resourceVersion":"7"}}`, []string{`{"a":"]}"}`}},
		"empty":          {`{"items":[],"metadata":{"resourceVersion":"7"}}`, nil},
		"null":           {`{"items":null,"metadata":{"resourceVersion":"7"}}`, nil},
	} {
		items, version, err := readAll(tc.body)
		if diff := cmp.Diff(tc.want, items); diff != "" || version != "7" || err != nil {
			t.Errorf("%s: version %q, error %v, items (-want +got):\n%s", name, version, err, diff)
		}
	}
}

func TestReadList_NoList_Refused(t *testing.T) {
	whole := `{"metadata":{"resourceVersion":"7"},"items":[{"a":1},{"b":2}]}`
	bodies := []string{`[]`, `{"items":{},"metadata":{"resourceVersion":"7"}}`, `{"items":[],"metadata":{}}`}
	for end := range whole {
		bodies = append(bodies, whole[:end])
	}
	for _, body := range bodies {
		if _, _, err := readAll(body); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: error %v, want one that says what is wrong", body, err)
		}
	}
}

// FuzzReadList compares with reading the list as a whole.
func FuzzReadList(f *testing.F) {
	f.Add(`{"metadata":{"resourceVersion":"7"},"items":[{"a":1},{"b":[2,"}"]}]}`)
	f.Add(`{"items":null,"metadata":{"resourceVersion":"1"}} `)
	f.Add(`{"items":[1,{}],"metadata":{"resourceVersion":1}}`)
	f.Fuzz(func(t *testing.T, body string) {
		items, version, err := readAll(body)
		if err != nil {
			return
		}
		var whole map[string]json.RawMessage
		if err := json.NewDecoder(strings.NewReader(body)).Decode(&whole); err != nil {
			t.Fatalf("taken for a list: %v", err)
		}
		if strings.Count(body, `"items"`) != 1 || strings.Count(body, `"metadata"`) != 1 || strings.Contains(body, `\u`) {
			return // the test does not judge which one counts, nor their names
		}
		var meta metav1.ListMeta
		var want []json.RawMessage
		if err := errors.Join(json.Unmarshal(whole["metadata"], &meta), unmarshalAny(whole["items"], &want)); err != nil {
			t.Fatalf("taken for a list: %v", err)
		}
		if meta.ResourceVersion != version || len(want) != len(items) {
			t.Fatalf("version %s and %d items, want %s and %d", version, len(items), meta.ResourceVersion, len(want))
		}
		for i := range want {
			if string(want[i]) != items[i] {
				t.Errorf("item %d is %s, want %s", i, items[i], want[i])
			}
		}
	})
}

func unmarshalAny(raw []byte, into any) error {
	if raw == nil {
		return nil
	}
	return json.Unmarshal(raw, into)
}

func event(kind, object string) string {
	return `{"type":"` + kind + `","object":` + object + "}"
}

func TestReadEvents_AnyCut_ReadWithoutKeptBuffer(t *testing.T) {
	bodies := []string{
		event("ADDED", `{"a":1}`), "\n" + event("MODIFIED", `{"b":"}{"}`) + "\n\r\n\t ", event("DELETED", `{}`),
	}
	want := []string{"ADDED", "MODIFIED", "DELETED"}
	whole := strings.Join(bodies, "")
	for name, body := range map[string]io.Reader{
		"at once":              strings.NewReader(whole),
		"byte by byte":         iotest.OneByteReader(strings.NewReader(whole)),
		"event by event":       io.MultiReader(strings.NewReader(bodies[0]), strings.NewReader(bodies[1]), strings.NewReader(bodies[2])),
		"with the end at once": iotest.DataErrReader(strings.NewReader(whole)),
	} {
		r := &eventReader{body: io.NopCloser(body)}
		var got []string
		for {
			event, err := r.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, event.Type)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", name, diff)
		}
		if r.begun != nil {
			t.Errorf("%s: a buffer is kept although all events are read", name)
		}
	}
}

func TestReadEvents_CutOff_Error(t *testing.T) {
	whole := event("ADDED", `{"a":1}`)
	for end := 1; end < len(whole); end++ {
		r := &eventReader{body: io.NopCloser(strings.NewReader(whole[:end]))}
		if got, err := r.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: event %v, error %v", whole[:end], got, err)
		}
	}
}
