// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
)

// readList reads a list in the API's JSON, object by object, so that memory never
// holds a whole list. It returns the list's resource version. It calls item
// with each object's JSON, which is not changed afterwards.
func readList(body io.Reader, item func(raw []byte)) (version string, err error) {
	decoder := json.NewDecoder(body)
	if err := expect(decoder, json.Delim('{')); err != nil {
		return "", err
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return "", cut(err)
		}
		switch key {
		case "metadata":
			var list metav1.ListMeta
			if err := decoder.Decode(&list); err != nil {
				return "", cut(err)
			}
			version = list.ResourceVersion
		case "items":
			err = readItems(decoder, item)
		default:
			err = decoder.Decode(new(json.RawMessage))
		}
		if err != nil {
			return "", cut(err)
		}
	}
	if err := expect(decoder, json.Delim('}')); err != nil {
		return "", err
	}
	if version == "" {
		return "", errors.New("the API server's list has no resource version")
	}
	return version, nil
}

// readItems reads an array of objects, or null.
func readItems(decoder *json.Decoder, item func(raw []byte)) error {
	begin, err := decoder.Token()
	if err != nil || begin == nil {
		return err
	}
	if begin != json.Delim('[') {
		return fmt.Errorf("the API server's list has %v in the place of objects", begin)
	}
	for decoder.More() {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return err
		}
		item(raw)
	}
	return expect(decoder, json.Delim(']'))
}

func expect(decoder *json.Decoder, want json.Delim) error {
	got, err := decoder.Token()
	if err != nil {
		return cut(err)
	}
	if got != want {
		return fmt.Errorf("the API server sent %v in the place of %v", got, want)
	}
	return nil
}

// cut turns an early end of the stream into an error.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// eventReader reads the events of a watch, a sequence of JSON objects with white
// space between them. A node has many watches, most of them idle. So the reader has a
// buffer only from the begin of an event to the end of the last one received.
type eventReader struct {
	body io.ReadCloser
	// begun reads the event that has begun, and holds further input; else nil.
	begun *json.Decoder
	first [1]byte
}

// wait returns when an event has begun. The error is io.EOF when the stream ends before.
func (r *eventReader) wait() error {
	for r.begun == nil {
		if _, err := io.ReadFull(r.body, r.first[:]); err != nil {
			return err
		}
		if len(bytes.TrimSpace(r.first[:])) > 0 {
			r.begin()
		}
	}
	return nil
}

func (r *eventReader) begin() {
	r.begun = json.NewDecoder(io.MultiReader(bytes.NewReader(r.first[:]), r.body))
}

// next waits for an event, and reads it. The error is io.EOF when the stream ends between two.
func (r *eventReader) next() (metav1.WatchEvent, error) {
	var event metav1.WatchEvent
	if err := r.wait(); err != nil {
		return event, err
	}
	if err := r.begun.Decode(&event); err != nil {
		return event, fmt.Errorf("read an event: %w", cut(err))
	}
	if !r.more() {
		r.begun = nil
	}
	return event, nil
}

// more reports whether the buffer has a part of the next event.
func (r *eventReader) more() bool {
	rest, err := io.ReadAll(r.begun.Buffered())
	return err != nil || len(bytes.TrimSpace(rest)) > 0
}

// entry is an object as the API has it.
type entry struct {
	id      descriptor.ID
	version string
	// row is nil for an object that has none; err tells why it can't be read.
	row any
	err error
	// initialEnd marks a bookmark after which come changes only.
	initialEnd bool
}

// read reads an object in the API's JSON. Of an unreadable one the entry has the
// identity, as far as possible.
func read(kind *descriptor.Kind, raw []byte) entry {
	object := kind.NewObject()
	if err := kube.Decode(raw, object); err != nil {
		known, _ := identify(raw) // empty if that fails too
		known.err = err
		return known
	}
	e := entry{id: descriptor.IDOf(object), version: object.GetResourceVersion()}
	e.row, e.err = kind.Row(object)
	return e
}

// identify reads only the identity of an object.
func identify(raw []byte) (entry, error) {
	var object metav1.PartialObjectMetadata
	if err := kube.Decode(raw, &object); err != nil {
		return entry{}, err
	}
	return entry{
		id: descriptor.IDOf(&object), version: object.ResourceVersion,
		initialEnd: object.Annotations[metav1.InitialEventsAnnotationKey] == "true",
	}, nil
}

// statusError returns the error of the API server that ends a watch.
func statusError(raw []byte) error {
	var status metav1.Status
	if err := kube.Decode(raw, &status); err != nil {
		return err
	}
	return apierrors.FromObject(&status)
}
