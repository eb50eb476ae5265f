package farm

import "fmt"

// ID is a uid or a gid. Both live in one number space: a number that anything uses is free for nothing else.
type ID int64

// The band of numbers that the service makes (docs/api.md, Accounts), and the numbers that are never ordinary.
const (
	MinID ID = 20000
	MaxID ID = 2000000000
	// MinOrdinaryID is the first number that does not belong to base accounts of the system.
	MinOrdinaryID ID = 1000
	// NobodyID is nobody and nogroup; OverflowID is what 16-bit programs show for larger numbers.
	NobodyID   ID = 65534
	OverflowID ID = 65535
)

// InBand reports whether the service may make an account or a group with this number.
func (id ID) InBand() bool {
	return id >= MinID && id <= MaxID && id != NobodyID && id != OverflowID
}

// IsBase reports whether the number belongs to the base system, whatever name it bears.
func (id ID) IsBase() bool { return id < MinOrdinaryID || id == NobodyID }

// CheckBand returns an error that names the band if the number lies outside it.
func (id ID) CheckBand() error {
	if !id.InBand() {
		return fmt.Errorf("%d is outside %d..%d", id, MinID, MaxID)
	}
	return nil
}
