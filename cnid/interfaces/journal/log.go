// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
)

// formatVersion is written into every line. A change that an older daemon would
// misread raises it.
const formatVersion = 2

// change is one step of the journal, and one line of the file.
type change struct {
	Format   int       `json:"format"`
	Put      *Record   `json:"put,omitempty"`     // into the attachments
	Drop     *Key      `json:"drop,omitempty"`    // from the attachments
	Queue    *Record   `json:"queue,omitempty"`   // into the release queue
	Unqueue  uint64    `json:"unqueue,omitempty"` // from the release queue
	Counters *counters `json:"counters,omitempty"`
	// Begin is in the first line of a file: the number of the following lines that
	// have the content at the creation of the file, one record each.
	Begin int `json:"begin,omitempty"`
}

// encode returns the line: the CRC-32C of a text as eight hexadecimal digits, a space,
// the text in JSON, and a line feed, which encoded JSON does not contain.
func (ch change) encode() ([]byte, error) {
	ch.Format = formatVersion
	text, err := json.Marshal(ch)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s %s\n", checksum(text), text), nil
}

func decode(line []byte) (change, error) {
	sum, text, _ := bytes.Cut(line, []byte(" "))
	if string(sum) != checksum(text) {
		return change{}, errors.New("checksum is wrong")
	}
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return change{}, err
	}
	if version.Format > formatVersion {
		return change{}, fmt.Errorf("%w: format %d, this one knows up to %d", ErrNewerFormat, version.Format, formatVersion)
	}
	var ch change
	err := json.Unmarshal(text, &ch)
	return ch, err
}

func checksum(text []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
}

// encode returns the lines of a new file.
func (c *content) encode() ([]byte, error) {
	all := []change{{Counters: &c.counters, Begin: len(c.records) + len(c.releases)}}
	for _, rec := range c.records {
		all = append(all, change{Put: &rec})
	}
	for _, rec := range c.releases {
		all = append(all, change{Queue: &rec})
	}
	var text []byte
	for _, ch := range all {
		line, err := ch.encode()
		if err != nil {
			return nil, err
		}
		text = append(text, line...)
	}
	return text, nil
}

// apply carries out a change. It raises the sequence counter to the highest number of the
// records, in case the line with the counters is damaged.
func (c *content) apply(ch change) {
	if ch.Counters != nil {
		c.counters = *ch.Counters
	}
	if ch.Drop != nil {
		c.remove(*ch.Drop)
	}
	delete(c.releases, ch.Unqueue)
	if ch.Put != nil {
		c.put(*ch.Put)
		c.counters.Seq = max(c.counters.Seq, ch.Put.Seq)
	}
	if ch.Queue != nil {
		c.releases[ch.Queue.Seq] = *ch.Queue
		c.counters.Seq = max(c.counters.Seq, ch.Queue.Seq)
	}
}

// readFile reads the intact lines, and returns the damage of the others. With an error
// the file must stay as it is.
func readFile(path string) (c content, damage error, err error) {
	c = newContent()
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return c, nil, nil
	}
	if err != nil {
		return c, err, nil
	}
	begin, number := 0, 0
	for line := range bytes.Lines(raw) {
		ch, err := decode(bytes.TrimSuffix(line, []byte("\n")))
		switch {
		case errors.Is(err, ErrNewerFormat):
			return c, nil, err
		case err != nil:
			damage = errors.Join(damage, fmt.Errorf("line %d: %w", number+1, err))
			if number > begin {
				c.dropUnfinished()
			}
		default:
			begin = max(begin, ch.Begin)
			c.apply(ch)
		}
		number++
	}
	if number <= begin {
		damage = errors.Join(damage, fmt.Errorf("it has %d lines, and was made with %d", number, begin+1))
	}
	return c, damage, nil
}

// dropUnfinished removes the attachments that a lost line may have completed. A start
// would undo them and disconnect running pods. Without the record, it finds the device
// and rebuilds the record.
func (c *content) dropUnfinished() {
	for key, rec := range c.records {
		if rec.Phase == PhaseIntended {
			c.remove(key)
		}
	}
}
